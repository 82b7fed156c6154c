"""firth over HTTP. lab/ is the web page."""
