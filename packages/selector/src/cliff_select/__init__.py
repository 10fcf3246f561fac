"""The best of k rollouts of a task (Soft Group Verification).

    groups, problems = read([Path("runs")])            # rollouts by task: `rollouts`
    for choice in choose(groups, shipped()):           # scores, margin, reasons: `choose`
        print(choice.task, choice.chosen.name)

`features` says what is looked at, `agreement` is the baseline without training, `evaluate` measures both.
LightGBM is imported when a model is used, not before.
"""

from cliff_select.choose import Choice, choose
from cliff_select.model import Model, shipped
from cliff_select.rollouts import Rollout, read

__all__ = ["Choice", "Model", "Rollout", "choose", "read", "shipped"]
