"""Recipes, the demo and its registered predictions."""

from lt2theory.experiments.demo import Demo as Demo
from lt2theory.experiments.demo import run_demo as run_demo
from lt2theory.experiments.recipes import recipes as recipes
