"""The tiny model's vocabulary and sizes, and the folder that vLLM loads it from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

SPECIAL = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
)
PAD, END, IMAGE = 256, 258, 262
VOCABULARY = 320  # a round number beyond the 263 that are used
PATCH, MERGE = 14, 2
MEAN = (0.48145466, 0.4578275, 0.40821073)
DEVIATION = (0.26862954, 0.26130258, 0.27577711)
PROMPT = "<|im_start|>user\n<|image_pad|><|im_end|>\n<|im_start|>assistant\n"
TEMPLATE = """{% for m in messages %}<|im_start|>{{m.role}}
{% if m.content is string %}{{m.content}}{% else %}{% for c in m.content %}{% if c.type.startswith('image') %}\
<|image_pad|>{% elif c.type=='text' %}{{c.text}}{% endif %}{% endfor %}{% endif %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""

VISION = {
    "model_type": "pixtral",
    "hidden_size": 192,
    "num_hidden_layers": 6,
    "num_attention_heads": 3,
    "head_dim": 64,
    "intermediate_size": 512,
    "image_size": 1540,
    "patch_size": PATCH,
    "num_channels": 3,
    "hidden_act": "silu",
    "rope_theta": 10000.0,
    "attention_dropout": 0.0,
    "initializer_range": 0.02,
}
TEXT = {
    "model_type": "qwen3",
    "architectures": ["Qwen3ForCausalLM"],
    "hidden_size": 192,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "intermediate_size": 512,
    "max_position_embeddings": 8192,
    "vocab_size": VOCABULARY,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1000000.0,
    "tie_word_embeddings": True,
    "hidden_act": "silu",
    "eos_token_id": END,
    "pad_token_id": PAD,
    "bos_token_id": PAD,
}


def tokenizer() -> Tokenizer:
    """One token a byte, and the special ones."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={letter: place for place, letter in enumerate(alphabet)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    made.post_processor = processors.TemplateProcessing(single="$A", pair="$A $B", special_tokens=[])
    made.add_special_tokens(list(SPECIAL))
    return made


def prompt(made: Tokenizer) -> tuple[list[int], list[int]]:
    """The tokens before and after the image's, as the chat template has them."""
    before, after = PROMPT.split("<|image_pad|>")
    return made.encode(before).ids, made.encode(after).ids


def write(folder: Path) -> None:
    """Everything but the weights."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer().save(str(folder / "tokenizer.json"))
    images = {"image_token": "<|image_pad|>", "image_break_token": "<|vision_pad|>"}
    images["image_end_token"] = "<|vision_end|>"
    files: dict[str, Any] = {
        "config.json": {
            "architectures": ["LightOnOCRForConditionalGeneration"],
            "model_type": "mistral3",
            "image_token_index": IMAGE,
            "image_token_id": IMAGE,
            "multimodal_projector_bias": False,
            "projector_hidden_act": "gelu",
            "spatial_merge_size": MERGE,
            "vision_feature_layer": -1,
            "vision_config": VISION,
            "text_config": TEXT,
            "tie_word_embeddings": True,
            "dtype": "bfloat16",
            "eos_token_id": END,
            "pad_token_id": PAD,
        },
        "generation_config.json": {"eos_token_id": END, "pad_token_id": PAD},
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": "<|im_end|>",
            "pad_token": "<|endoftext|>",
            **images,
        },
        "processor_config.json": {
            "processor_class": "PixtralProcessor",
            "patch_size": PATCH,
            "spatial_merge_size": MERGE,
            **images,
        },
        "preprocessor_config.json": {
            "processor_class": "PixtralProcessor",
            "image_processor_type": "PixtralImageProcessor",
            "do_convert_rgb": True,
            "do_normalize": True,
            "do_rescale": True,
            "do_resize": True,
            "image_mean": MEAN,
            "image_std": DEVIATION,
            "patch_size": {"height": PATCH, "width": PATCH},
            "resample": 3,
            "rescale_factor": 1 / 255,
            "size": {"longest_edge": 1540},
        },
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content, indent=1) + "\n")
    (folder / "chat_template.jinja").write_text(TEMPLATE)
