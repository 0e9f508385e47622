"""Plots curves with a band around each, as an SVG file; needs only Python."""
from html import escape

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 800, 440, 60, 230, 54, 48
COLOURS = ("#0072b2", "#d55e00", "#555555", "#009e73", "#b0508a")  # also distinguishable for the colour-blind


def ticks(low, high, about=6):
    """Round numbers from low to high."""
    step = next(s * 10**e for e in range(-6, 9) for s in (1, 2, 5) if (high - low) / (s * 10**e) <= about)
    first = -int(-low // step)
    return [round(i * step, 9) for i in range(first, int(high / step + 1e-9) + 1)]


def text(x, y, words, **style):
    attributes = " ".join(f'{name.replace("_", "-")}="{value}"' for name, value in style.items())
    return f'<text x="{x:.1f}" y="{y:.1f}" {attributes}>{escape(words)}</text>'


def spread_out(heights, gap):
    """Keeps the order, with at least a gap between neighbours."""
    order = sorted(range(len(heights)), key=lambda i: heights[i])
    placed, last = list(heights), float("-inf")
    for i in order:
        placed[i] = last = max(heights[i], last + gap)
    return placed


def svg(title, x_title, y_title, curves, y_range, width=WIDTH, right=RIGHT):
    """curves: (name, [x], [mean], [deviation]) each; right: room for the names. Narrow pictures are readable on a
    phone."""
    x_high = max(x for _, xs, _, _ in curves for x in xs)
    low, high = y_range
    right, bottom = width - right, HEIGHT - BOTTOM
    to_x = lambda x: LEFT + x / x_high * (right - LEFT)
    to_y = lambda y: bottom - (min(max(y, low), high) - low) / (high - low) * (bottom - TOP)
    path = lambda points: " ".join(f"{to_x(x):.1f},{to_y(y):.1f}" for x, y in points)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" font-family="sans-serif" '
           f'font-size="13">', f'<rect width="{width}" height="{HEIGHT}" fill="white"/>']  # fmt: skip
    out.append(text(LEFT, 24, title, font_size=15))
    for y in ticks(low, high):
        out.append(f'<path d="M{LEFT} {to_y(y):.1f}H{right}" stroke="#dddddd"/>')
        out.append(text(LEFT - 8, to_y(y) + 4, f"{y:g}", text_anchor="end"))
    for x in ticks(0, x_high):
        out.append(text(to_x(x), bottom + 18, f"{x:g}", text_anchor="middle"))
    out.append(text((LEFT + right) / 2, HEIGHT - 10, x_title, text_anchor="middle"))
    out.append(text(LEFT, TOP - 6, y_title, font_size=12))

    heights = spread_out([to_y(means[-1]) for _, _, means, _ in curves], 17)
    for (name, xs, means, deviations), height, colour in zip(curves, heights, COLOURS):
        upper = [(x, m + d) for x, m, d in zip(xs, means, deviations)]
        lower = [(x, m - d) for x, m, d in zip(xs, means, deviations)]
        out.append(f'<polygon points="{path(upper + lower[::-1])}" fill="{colour}" opacity="0.18"/>')
        out.append(f'<polyline points="{path(zip(xs, means))}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out.append(text(right + 8, height + 4, name, fill=colour))
    return "\n".join(out + ["</svg>", ""])
