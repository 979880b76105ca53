// Boxes kept, best first, that none of those kept before overlaps (box_suppression_ref.cl), of dense plain tensors. Exact.
//
// A ticket is an image and class. The scratch of a ticket: a heap of `count` keys, then five rows of ROOM(most) floats.
//
// boxes, scores, out          [N][count][4], [N][classes][count], [N][classes][most]
// limit, overlap, least       one element each
// centered                    1: a box is its centre and sides, 0: two opposite corners
#include "tile.clh"
#include "boxes.clh"

static void box_suppression_lines(__global const box_suppression_lines_desc* d, __global char** banks, __global char* scratch,
                                  const int ticket, __global const post_step* post, const int posts) {
  const int image = ticket / d->classes;
  __global ulong* heap = (__global ulong*)scratch;
  suppress_boxes(AT(const float, banks, d->boxes) + 4l * image * d->count, 4, 1, d->centered,
                 AT(const float, banks, d->scores) + (long)ticket * d->count, 1, AT(const float, banks, d->least)[0],
                 AT(const float, banks, d->overlap)[0], AT(const long, banks, d->limit)[0], d->count, d->most,
                 AT(int, banks, d->out) + (long)ticket * d->most, 1, heap, (__global float*)(heap + d->count));
}
