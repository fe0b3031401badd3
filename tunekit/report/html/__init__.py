"""The report as one file that opens without a network.

page          a report's blocks -> HTML; templates/blocks.html has a macro for each kind of block

The page's own files lie beside: templates/, page.css, page.js.
"""
