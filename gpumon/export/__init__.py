"""The Prometheus side: a NodeView becomes series, series become text, text is served over HTTP."""
