// A dense plain tensor of narrow rows copied, and the list applied to the copy: elementwise functions with broadcast operands.
//
// The tensors are seen as [images][rows][width], each row behind the one before. A ticket is a run of pieces, a piece
// `each` rows, a multiple of 16, seen as one run of floats: what an operand has for them is written side by side before
// an operation reads it. In the list n is the image, y the row and x the 16-float vector.
//
// inp, out        the input and the output, which may be the input's memory; any alignment
// lines           rows of all images;  rows: of an image
// width           floats of a row
// each            rows of a piece, at most 32;  pieces, ticket_pieces: pieces in all, of a ticket
//
// Scratch holds a step of the list, behind it each * width floats and 32 that are not read. The list names neither notes
// nor bytes that are added. Error: that of the operations (post_apply.clh).
#include "narrow_rows.clh"

static void copy_narrow_rows(__global const copy_narrow_rows_desc* d, __global char** banks, __global char* scratch,
                             const int ticket, __global const post_step* post, const int posts) {
  const int last = min((ticket + 1) * d->ticket_pieces, d->pieces), width = d->width, rows = d->rows;
  for (int p = ticket * d->ticket_pieces; p < last; p++) {
    const int line = p * d->each, lines = min(d->each, d->lines - line);
    __global const float* from = AT(const float, banks, d->inp) + (long)line * width;
    post_narrow(post, posts, banks, from, AT(float, banks, d->out) + (long)line * width, scratch, 0, 0, line, lines, rows, width,
                p > ticket * d->ticket_pieces);
  }
}
