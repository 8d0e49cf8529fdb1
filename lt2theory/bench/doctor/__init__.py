"""`lt2 doctor`: what this machine's backends compute, case by case, each in its own process."""
