"""What looping a sub-quadratic sequence model buys: curricula, looped mixers and measurements.

The package itself holds nothing but its version, so that importing it stays light; the parts are
subpackages (`ops`, `runs`, `mixers`, `models`, `training`, `analysis`, `hf`, `linearize`, `report`,
`experiments`, `bench`) and the command line `lt2` (`python -m lt2theory`).
"""

__version__ = "0.1.0"
