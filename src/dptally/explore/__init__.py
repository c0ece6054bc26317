"""A local page to try parameters and to ask a release: served to this machine alone, with nothing but Python's library.

`dptally.explore.server` holds the server, `curves` the reporting curves of all mechanisms, `questions` what can be
asked of a release, `page` the page itself.
"""
