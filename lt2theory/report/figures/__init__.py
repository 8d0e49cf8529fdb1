"""Figures as functions of tidy tables: no reading, no writing, no state left behind."""

from lt2theory.report.figures.curves import learning_curves as learning_curves
from lt2theory.report.figures.efficiency import cost_by_length as cost_by_length
from lt2theory.report.figures.elements import rank_by_element as rank_by_element
from lt2theory.report.figures.influence_map import influence_map as influence_map
from lt2theory.report.figures.instruments import gate_histograms as gate_histograms
from lt2theory.report.figures.instruments import (
    instruments_over_training as instruments_over_training,
)
from lt2theory.report.figures.instruments import profiles_over_depth as profiles_over_depth
from lt2theory.report.figures.lengths import exact_prefix as exact_prefix
from lt2theory.report.figures.lengths import exact_prefix_panels as exact_prefix_panels
from lt2theory.report.figures.lengths import length_generalisation as length_generalisation
from lt2theory.report.figures.memory import state_rank_over_time as state_rank_over_time
from lt2theory.report.figures.outcomes import steps_to_solve as steps_to_solve
from lt2theory.report.figures.outcomes import success_rates as success_rates
from lt2theory.report.figures.rank import effective_rank_by_loops as effective_rank_by_loops
from lt2theory.report.figures.reach import distance_probe as distance_probe
from lt2theory.report.figures.reach import influence_by_distance as influence_by_distance
from lt2theory.report.figures.rungs import accuracy_by_stage as accuracy_by_stage
from lt2theory.report.figures.sawtooth import saw_tooth as saw_tooth
from lt2theory.report.figures.spectrum import spectrum_by_loops as spectrum_by_loops
from lt2theory.report.figures.stages import stages_by_family as stages_by_family
from lt2theory.report.figures.text import speed_over_training as speed_over_training
from lt2theory.report.figures.text import text_curves as text_curves
