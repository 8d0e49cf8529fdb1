"""Training: the curriculum runner, its configuration, evaluation and checkpoints."""

from lt2theory.training.board import Account as Account
from lt2theory.training.board import Job as Job
from lt2theory.training.config import CurriculumConfig as CurriculumConfig
from lt2theory.training.config import resolve as resolve
from lt2theory.training.config_parts import OptimiserConfig as OptimiserConfig
from lt2theory.training.config_parts import TaskConfig as TaskConfig
from lt2theory.training.curriculum import load_model as load_model
from lt2theory.training.curriculum import load_summary as load_summary
from lt2theory.training.curriculum import run_curriculum as run_curriculum
from lt2theory.training.evaluation import Curves as Curves
from lt2theory.training.evaluation import Evaluation as Evaluation
from lt2theory.training.evaluation import Interval as Interval
from lt2theory.training.evaluation import evaluate as evaluate
from lt2theory.training.evaluation import wilson as wilson
from lt2theory.training.many import run_many as run_many
from lt2theory.training.records import Candidate as Candidate
from lt2theory.training.records import CurriculumSummary as CurriculumSummary
from lt2theory.training.records import StageRecord as StageRecord
from lt2theory.training.records import StageTest as StageTest
from lt2theory.training.runtime import Runtime as Runtime
from lt2theory.training.runtime import torch_threads as torch_threads
from lt2theory.training.selection import select_learning_rate as select_learning_rate
from lt2theory.training.sharing import share_device as share_device
from lt2theory.training.signals import Interrupted as Interrupted
