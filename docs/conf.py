"""Settings of Sphinx: `make docs` builds the site from the Markdown pages of this folder."""

from importlib.metadata import version as version_of
from pathlib import Path

from sphinx.application import Sphinx

project = "celery_semaphore"
author = "celery_semaphore contributors"
project_copyright = author
release = version = version_of("celery-semaphore")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx_click",
    "sphinx_copybutton",
    "sphinxcontrib.svgbob",
]
exclude_patterns = ["_build"]
nitpicky = False  # annotations name classes of Celery and Django, which this site does not describe

html_theme = "furo"
html_title = "celery_semaphore"
html_copy_source = False
html_static_path = ["static"]
html_css_files = ["diagrams.css"]

myst_enable_extensions = ["colon_fence"]
myst_fence_as_directive = ["svgbob"]  # a plain fence, which is readable as it is
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"

copybutton_prompt_text = "$ "  # of a console: copy what is typed, not what is answered


def write_contents(app: Sphinx, error: Exception | None) -> None:
    """Write ``llms.txt``, the list of all pages that programs look for (llmstxt.org)."""
    if error or app.builder.name != "html":
        return
    pages = app.env.toctree_includes["index"]
    links = (
        f"- [{app.env.titles[page].astext()}]({app.builder.get_target_uri(page)})" for page in pages
    )
    summary = "> Concurrency limits for Celery tasks, across a whole cluster, that hold when processes die."
    text = "\n".join([f"# {project}", "", summary, "", "## Pages", "", *links, ""])
    Path(app.outdir, "llms.txt").write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> None:
    """Register what this site needs beside its extensions."""
    app.connect("build-finished", write_contents)
