"""Knowledge as people ask for it: show, search, graph, quick reference, guide."""
