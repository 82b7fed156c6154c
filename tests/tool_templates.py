"""Chat templates with tools, each in the manner of a family of models, and how models of that family write calls."""

HERMES = """\
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}
    {{- '# Tools\\n\\nThe functions are in <tools></tools>:\\n<tools>' }}
    {%- for tool in tools %}{{- '\\n' }}{{- tool | tojson }}{%- endfor %}
    {{- '\\n</tools>\\n\\nFor each call, write within <tool_call></tool_call>:\\n<tool_call>\\n' }}
    {{- '{\\"name\\": <name>, \\"arguments\\": <arguments>}\\n</tool_call><|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'user' or (message.role == 'system' and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == 'assistant' %}
        {{- '<|im_start|>' + message.role }}
        {%- if message.content %}{{- '\\n' + message.content }}{%- endif %}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function is defined %}{%- set tool_call = tool_call.function %}{%- endif %}
            {{- '\\n<tool_call>\\n{\\"name\\": \\"' + tool_call.name + '\\", \\"arguments\\": ' }}
            {{- tool_call.arguments | tojson }}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == 'tool' %}
        {%- if loop.index0 == 0 or messages[loop.index0 - 1].role != 'tool' %}{{- '<|im_start|>user' }}{%- endif %}
        {{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}
        {%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{- '<|im_end|>\\n' }}{%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""
LLAMA = """\
{{- bos_token }}
{%- if not tools is defined %}{%- set tools = none %}{%- endif %}
{%- for message in messages if message.role != 'system' %}
    {%- if message.role == 'user' %}
        {{- '<|header|>user<|close|>\\n\\n' }}
        {%- if tools is not none and loop.first %}
            {{- 'Respond with {\\"name\\": function name, \\"parameters\\": arguments}.\\n\\n' }}
            {%- for tool in tools %}{{- tool | tojson(indent=4) + '\\n\\n' }}{%- endfor %}
        {%- endif %}
        {{- message.content | trim + '<|eot|>' }}
    {%- elif message.tool_calls is defined %}
        {%- if message.tool_calls | length != 1 %}{{- raise_exception('one call at a time') }}{%- endif %}
        {%- set call = message.tool_calls[0].function %}
        {{- '<|header|>assistant<|close|>\\n\\n' }}
        {{- '{\\"name\\": \\"' + call.name + '\\", \\"parameters\\": ' }}{{- call.arguments | tojson }}{{- '}<|eot|>' }}
    {%- elif message.role == 'tool' %}
        {{- '<|header|>ipython<|close|>\\n\\n' + message.content | tojson + '<|eot|>' }}
    {%- else %}
        {{- '<|header|>' + message.role + '<|close|>\\n\\n' + message.content | trim + '<|eot|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|header|>assistant<|close|>\\n\\n' }}{%- endif %}
"""
MISTRAL = """\
{{- bos_token }}
{%- for message in messages if message.role != 'system' %}
    {%- if message.role == 'user' %}
        {%- if tools is not none %}{{- '[AVAILABLE_TOOLS] ' + tools | tojson + '[/AVAILABLE_TOOLS]' }}{%- endif %}
        {{- '[INST] ' + message.content + '[/INST]' }}
    {%- elif message.tool_calls is defined and message.tool_calls is not none %}
        {{- '[TOOL_CALLS] [' }}
        {%- for call in message.tool_calls %}
            {%- if call.id | length != 9 %}{{- raise_exception('ids of calls have 9 characters') }}{%- endif %}
            {%- set out = call.function | tojson %}
            {{- out[:-1] + ', \\"id\\": \\"' + call.id + '\\"}' }}{{- '' if loop.last else ', ' }}
        {%- endfor %}
        {{- ']' + eos_token }}
    {%- elif message.role == 'tool' %}
        {{- '[TOOL_RESULTS] {\\"content\\": ' + message.content | string }}
        {{- ', \\"call_id\\": \\"' + message.tool_call_id + '\\"}[/TOOL_RESULTS]' }}
    {%- else %}
        {{- ' ' + message.content | trim + eos_token }}
    {%- endif %}
{%- endfor %}
"""
_CALL_IN_HERMES = HERMES[
    HERMES.index("            {{- '\\n<tool_call>") : HERMES.index("        {%- endfor %}\n        {{- '<|im_end|>")
]
QWEN_CODER = HERMES.replace(
    _CALL_IN_HERMES,
    """\
            {{- '\\n<tool_call>\\n<function=' + tool_call.name + '>\\n' }}
            {%- for name, value in tool_call.arguments | items %}
                {{- '<parameter=' + name + '>\\n' }}
                {{- value if value is string else value | tojson }}
                {{- '\\n</parameter>\\n' }}
            {%- endfor %}
            {{- '</function>\\n</tool_call>' }}
""",
)
TOOL_TEMPLATES = {"Hermes": HERMES, "Qwen Coder": QWEN_CODER, "Llama": LLAMA, "Mistral": MISTRAL}
