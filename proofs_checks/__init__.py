"""The ledger of claims: one file a group, checked with the strongest evidence there is."""
