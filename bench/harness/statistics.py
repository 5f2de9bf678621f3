"""Medians, spreads and ratios."""

import math


def percentile(values, percent):
	"""The smallest value that at least this many percent are not above."""
	if not values:
		return math.nan
	ordered = sorted(values)
	return ordered[max(math.ceil(len(ordered) * percent / 100), 1) - 1]


def median(values):
	ordered = sorted(values)
	middle = len(ordered) // 2
	if len(ordered) % 2:
		return ordered[middle]
	return (ordered[middle - 1] + ordered[middle]) / 2


def number(value, digits=2):
	if math.isnan(value):
		return '–'
	if math.isinf(value):
		return '∞'
	return '%.*f' % (digits, value)


class Spread:
	"""The median of some values, and how far they go to both sides."""

	def __init__(self, values):
		self.values = list(values)
		self.median = median(self.values)
		self.low = min(self.values)
		self.high = max(self.values)

	def text(self, digits=2):
		return '%s (%s–%s)' % (number(self.median, digits), number(self.low, digits),
							   number(self.high, digits))


def ratios(figures, baselines):
	"""Round by round, so that what slows the machine for a while slows both."""
	return Spread([f / b if b > 0 else math.inf for f, b in zip(figures, baselines)])
