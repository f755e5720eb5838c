"""The door for browsers and other programs: a JSON API, an event stream and the pages of the dashboard, over HTTP.

`guard` decides who may come in, `calls` and `pages` say what can be asked, `threads` does the work on projects that
belong to one thread each, and `app` puts it together. What an operation means is decided by `Project`, as everywhere.
"""
