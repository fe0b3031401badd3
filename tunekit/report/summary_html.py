"""The answer of a run as a piece of HTML, for a notebook. Pure."""

from jinja2 import Environment, StrictUndefined

from tunekit.plain_text import shown_value
from tunekit.report.run import RunView

_TEMPLATE = """\
<div>
<p><strong>{{ shown.answer }}</strong></p>
{% for line in lines %}<p>{{ line }}</p>
{% endfor -%}
{% if shown.changes %}<p><strong>Change</strong></p>
<ul>
{% for change in shown.changes %}<li><code>{{ change }}</code></li>
{% endfor -%}
</ul>
{% endif -%}
<table>
<caption>{{ table.title }}</caption>
<thead><tr>{% for title in table.columns %}<th scope="col">{{ title }}</th>{% endfor %}</tr></thead>
<tbody>
{% for row in table.rows %}<tr>{% for cell in row -%}
{% if loop.first %}<th scope="row">{{ cell }}</th>
{%- else %}<td{% if loop.index0 in table.numeric %} style="text-align: right"{% endif %}>{{ cell }}</td>
{%- endif %}{% endfor %}</tr>
{% endfor -%}
</tbody>
</table>
{% for finding in shown.findings %}<p>{{ finding.heading }}
{%- for detail in finding.details %}<br>{{ detail }}{% endfor %}</p>
{% endfor -%}
<p><small>{{ shown.how_measured }}</small></p>
</div>
"""


def summary_html(shown: RunView) -> str:
    """Return the answer, what to change, the tiers and the findings; every text is escaped."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, finalize=shown_value)
    lines = [line for line in (shown.headroom, shown.price, *shown.missing_tiers) if line]
    return environment.from_string(_TEMPLATE).render(shown=shown, table=shown.short_tiers, lines=lines)
