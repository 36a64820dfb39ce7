"""Settings of Sphinx: `make docs` builds the site from the Markdown pages of this folder."""

from importlib.metadata import version as version_of

project = "celery_semaphore"
author = "celery_semaphore contributors"
project_copyright = author
release = version = version_of("celery-semaphore")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx_click",
    "sphinxcontrib.mermaid",
]
exclude_patterns = ["_build"]
nitpicky = False  # annotations name classes of Celery and Django, which this site does not describe

html_theme = "furo"
html_title = "celery_semaphore"
html_copy_source = False

myst_enable_extensions = ["colon_fence"]
myst_fence_as_directive = ["mermaid"]  # a plain fence, which code hosts draw, too
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
