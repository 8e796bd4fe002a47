"""Are networks that were trained to have a known circuit like networks that learned the task alone?"""
