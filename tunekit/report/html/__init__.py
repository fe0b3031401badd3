"""The report as one file that opens without a network.

page          RunView -> HTML
sections      which parts a page has, in their order
drawings      charts as the page's script draws them, and as tables
trial_order   in which order trials stand when they are sorted by a column
embedded      what the page carries (its script and style, plotly.js, data), and the policy for just these

The page's own files lie beside: templates/, page.css, page.js.
"""
