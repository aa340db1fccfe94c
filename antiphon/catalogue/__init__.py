"""What is known of the models behind the providers: how much they read, what they take, what they cost."""

from antiphon.catalogue.lookup import Catalogue, FactSource, ModelInfo
from antiphon.config import ModelFacts, Prices

__all__ = ["Catalogue", "FactSource", "ModelFacts", "ModelInfo", "Prices"]
