"""What is known of the models behind the providers: how much they read, what they take, what they cost."""

from antiphon.catalogue.lookup import Catalogue, ModelInfo, Source
from antiphon.config import ModelFacts, Prices

__all__ = ["Catalogue", "ModelFacts", "ModelInfo", "Prices", "Source"]
