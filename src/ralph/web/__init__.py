"""HTTP server with the JSON API, the event stream and the dashboard.

`guard` authenticates requests, `calls` and `views` define the endpoints and pages, `threads` runs them on one project
per thread, and `app` wires everything together. The operations themselves are implemented by `Project`.
"""
