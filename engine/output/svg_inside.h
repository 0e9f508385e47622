/* engine/output/svg_inside.h: what the files that draw share. */
#ifndef BT_SVG_INSIDE_H
#define BT_SVG_INSIDE_H

#include "engine/output/svg.h"

#define BT_SVG_LETTER 6.9 /* a character's width, at most, on average; font-size 13 */

/* Words, cut where they have more than so many characters; all of them show when the pointer rests there. */
void bt_svg_put(bt_text *text, double x, double y, const char *style, const char *words, int most);

/* Words that show when the pointer rests on the element that is open. */
void bt_svg_hint(bt_text *text, const char *words);

/* 1, 2, 2.5 or 5 times a power of ten units: so that there are about four of them in the range. */
double bt_svg_step(double range, double unit);

/* The whole file, around what has been drawn. */
void bt_svg_close(const bt_text *inner, double width, double height, bt_text *text);

#endif
