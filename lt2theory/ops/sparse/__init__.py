"""Native and DeepSeek sparse attention: the ops, their references and faster backends."""
