"""The Hugging Face face: importing it registers looped models with the Auto classes."""

from transformers import AutoConfig, AutoModelForCausalLM

from lt2theory.hf.cache import LoopedLTCache as LoopedLTCache
from lt2theory.hf.configuration import LoopedLTConfig as LoopedLTConfig
from lt2theory.hf.modeling import LoopedLTForCausalLM as LoopedLTForCausalLM

AutoConfig.register(LoopedLTConfig.model_type, LoopedLTConfig, exist_ok=True)
AutoModelForCausalLM.register(LoopedLTConfig, LoopedLTForCausalLM, exist_ok=True)
