"""From a task to the memories worth showing: query, candidates, ranking, selection, rendering."""
