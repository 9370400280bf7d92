"""What the record of past questions suggests about the policy: rules that people could add, change or remove."""
