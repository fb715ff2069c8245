"""Each gamma from the others: predictions that measurements can prove wrong."""
