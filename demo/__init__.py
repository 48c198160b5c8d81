"""The main job from end to end, on a real SGLang and a throw-away SSH server."""
