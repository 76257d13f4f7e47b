// Filled in the next steps.
