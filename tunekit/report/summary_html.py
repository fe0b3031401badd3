"""The answer of a run as a piece of HTML, for a notebook. Pure."""

from jinja2 import Environment, StrictUndefined

from tunekit.plain_text import shown_value
from tunekit.recommend.recommendation import answer_of
from tunekit.records.run import Run
from tunekit.report import answer
from tunekit.report.blocks import found_blocks
from tunekit.report.tiers import short_tiers_table

_TEMPLATE = """\
<div>
<p><strong>{{ answer }}</strong></p>
{% for line in lines %}<p>{{ line }}</p>
{% endfor -%}
{% if changes %}<p><strong>Change</strong></p>
<ul>
{% for change in changes %}<li><code>{{ change }}</code></li>
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
{% for finding in findings %}<p>{{ finding.heading }}
{%- for detail in finding.details %}<br>{{ detail }}{% endfor %}</p>
{% endfor -%}
<p><small>{{ how_measured }}</small></p>
</div>
"""


def summary_html(run: Run) -> str:
    """Return the answer, what to change, the tiers and the findings; every text is escaped."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, finalize=shown_value)
    best = answer_of(run.recommendations)
    lines = (
        answer.candidate_text(run),
        answer.headroom_text(run, best),
        answer.price_text(run, best),
        *answer.missing_lines(run),
    )
    return environment.from_string(_TEMPLATE).render(
        answer=answer.answer_text(run, best),
        lines=[line for line in lines if line],
        changes=answer.change_lines(run, best),
        table=short_tiers_table(run),
        findings=found_blocks(run.findings),
        how_measured=answer.how_measured(run, best),
    )
