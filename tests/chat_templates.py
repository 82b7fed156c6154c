"""Chat templates, each in the manner of a family of models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import tokenizers

from firth.text.tokenizers.tokenizer import Tokenizer

CHATML = """\
{%- if messages[0].role != 'system' -%}
    {{ '<|im_start|>system\\nYou are helpful.<|im_end|>\\n' }}
{%- endif -%}
{%- for message in messages -%}
    {{ '<|im_start|>' ~ message.role ~ '\\n' ~ message.content ~ '<|im_end|>' ~ '\\n' }}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif -%}
"""
INST = """\
{%- set ns = namespace(system='') -%}
{%- if messages[0]['role'] == 'system' -%}
    {%- set ns.system = '<<SYS>>\\n' + messages[0]['content'] + '\\n<</SYS>>\\n\\n' -%}
    {%- set messages = messages[1:] -%}
{%- endif -%}
{%- for message in messages -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{- raise_exception('roles must alternate') -}}
    {%- endif -%}
    {%- if message['role'] == 'user' -%}
        {{- bos_token + '[INST] ' + (ns.system if loop.first else '') + message['content'] | trim + ' [/INST]' -}}
    {%- else -%}
        {{- ' ' + message['content'] | trim + ' ' + eos_token -}}
    {%- endif -%}
{%- endfor -%}
"""
HEADERS = """\
{{- bos_token }}
{%- macro head(role) %}{{ '<|header|>' + role + '<|close|>\\n\\n' }}{% endmacro -%}
{%- for message in messages %}
    {{- head(message['role']) + message['content'] | trim + '<|eot|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- head('assistant') }}
{%- endif %}
"""
ZEPHYR = """\
{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>\\n' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>\\n'  + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}
"""
MARKED = """\
{% for message in messages %}
{{ '<|im_start|>' + message['role'] + '\\n' }}
{%- if message['role'] == 'assistant' %}
{% generation %}{{ message['content'] + '<|im_end|>' }}{% endgeneration %}
{%- else %}
{{- message['content'] + '<|im_end|>' }}
{%- endif %}

{% endfor %}
{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}
"""


def in_transformers(own: Tokenizer, special: Sequence[str]) -> Any:
    """The tokenizer of `transformers` with the same tokens, which renders templates, too. `special` begins with "<s>", "</s>"."""
    transformers = pytest.importorskip("transformers", reason="the oracle of chat templates")
    theirs = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer.from_str(own.to_json()), bos_token=special[0], eos_token=special[1]
    )
    theirs.add_special_tokens({"additional_special_tokens": list(special[2:])})
    return theirs
