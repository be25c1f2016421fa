"""The search for a machine: design spaces, tasks, the Pareto front, and the page that shows it."""
