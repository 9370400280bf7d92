"""One recipe per agent program; the recipes for agent libraries, which differ in a few words, are in `libraries`."""
