"""How near recovered data is to a client's own: each measure is one file, each beside baselines."""

from unstale.audit.metrics.lpips import Lpips
from unstale.audit.metrics.matching import Match, identified, match
from unstale.audit.metrics.membership import Membership, membership, nearness
from unstale.audit.metrics.pictures import mean_squared_errors, psnr, ssim, unit_range
from unstale.audit.metrics.quality import Judge, Quality, mean_quality
from unstale.audit.metrics.recognition import recognised, trained_classifier

__all__ = [
    "Judge",
    "Lpips",
    "Match",
    "Membership",
    "Quality",
    "identified",
    "match",
    "mean_quality",
    "mean_squared_errors",
    "membership",
    "nearness",
    "psnr",
    "recognised",
    "ssim",
    "trained_classifier",
    "unit_range",
]
