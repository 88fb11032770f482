"""The privacy audit: attacks on clients' updates, measures of what they recover, and a page.

It looks at a federation as an honest but curious server does, which sees every update.
"""

from unstale.audit.audit import AuditPlan, audit_privacy
from unstale.audit.of_experiment import audit_experiment
from unstale.audit.result import Labels, PrivacyAudit, Size

__all__ = ["AuditPlan", "Labels", "PrivacyAudit", "Size", "audit_experiment", "audit_privacy"]
