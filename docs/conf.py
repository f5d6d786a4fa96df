"""How Sphinx builds the site from these pages, which stay plain reStructuredText."""

from __future__ import annotations

import sys
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

sys.path.insert(0, str(Path(__file__).parent.parent))

from docs import links  # its folder is not on the path before
from snia_pts import __version__
from snia_pts.manual import generate

project = "snia-pts"
version = release = __version__
copyright = ""  # Sphinx's name
html_show_copyright = False
html_show_sphinx = False
html_copy_source = False
html_show_search_summary = False  # a browser does not load other pages from a disk

extensions = ["sphinx.ext.autodoc"]  # napoleon takes the text before a colon of a property for its type
html_theme = "furo"
html_title = f"snia-pts {version}"
html_static_path = ["static"]
html_css_files = ["site.css"]
pygments_style = "default"
highlight_language = "none"
nitpicky = True
#: Types in signatures: those of other packages are documented elsewhere, those of this one where they are public.
nitpick_ignore_regex = [("py:.*", ".*")]
smartquotes = False  # of options
autodoc_member_order = "bysource"


class Generate(SphinxDirective):
    """``.. generate:: NAME``: what the function NAME of ``snia_pts.manual.generate`` returns, as reStructuredText."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the nodes of the generated text; its headings are sections of the page."""
        text = getattr(generate, self.arguments[0])()
        return self.parse_text_to_nodes(text, allow_section_headings=True)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive and the links."""
    app.add_directive("generate", Generate)
    links.connect(app)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
