"""From a teacher to a student: pretrained softmax models as linear-time ones."""

from lt2theory.linearize.choice import bookend_layers as bookend_layers
from lt2theory.linearize.choice import highest_layers as highest_layers
from lt2theory.linearize.choice import score_table as score_table
from lt2theory.linearize.choice import uniform_layers as uniform_layers
from lt2theory.linearize.construct import Student as Student
from lt2theory.linearize.construct import build_student as build_student
from lt2theory.linearize.divergence import Recovery as Recovery
from lt2theory.linearize.divergence import recovery as recovery
from lt2theory.linearize.divergence import token_kl as token_kl
from lt2theory.linearize.hybrids import restored as restored
from lt2theory.linearize.hybrids import student_config as student_config
from lt2theory.linearize.selectors import layer_scores as layer_scores
from lt2theory.linearize.starts import STUDENT_MIXERS as STUDENT_MIXERS
from lt2theory.linearize.starts import Start as Start
from lt2theory.linearize.swaps import replacement_scores as replacement_scores
from lt2theory.linearize.swaps import restoration_scores as restoration_scores
from lt2theory.linearize.teachers import Teacher as Teacher
from lt2theory.linearize.teachers import frozen as frozen
from lt2theory.linearize.teachers import load_teacher as load_teacher
from lt2theory.linearize.untrained import Case as Case
from lt2theory.linearize.untrained import axis_cases as axis_cases
from lt2theory.linearize.untrained import untrained_table as untrained_table
from lt2theory.linearize.views import View as View
from lt2theory.linearize.views import teacher_views as teacher_views
