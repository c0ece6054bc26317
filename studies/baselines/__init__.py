"""What the mechanisms are compared with: printed bounds, uncertified baselines, estimates without privacy.

Nothing here keeps a guarantee.
"""
