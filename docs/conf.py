"""How Sphinx builds this documentation: without a network, and with every warning an error (Makefile)."""

from importlib.metadata import version as version_of

project = "AMQP management gateway"
author = "The AMQP management gateway authors"
version = release = version_of("amqp-management-gateway")

extensions = ["myst_parser"]
exclude_patterns = ["_build"]
nitpicky = True

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"{project} {release}"
html_show_copyright = False
html_static_path = ["_static"]
html_css_files = ["wide-tables.css"]
