"""Figures as functions of tidy tables, intervals over seeds, and the self-contained report."""
