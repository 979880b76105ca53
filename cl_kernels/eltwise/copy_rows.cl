// A plain tensor copied row by row, and the list applied to it: all elementwise functions of plain tensors.
//
// The tensors are seen as [sets][images][rows][width]; operands may move differently along each of the last three, and
// there is one set where there is a list. A ticket is a run of pieces, a piece at most `piece` floats of a row, a multiple
// of 16. In the list n is the image, y the row and x the 16-float vector.
//
// inp, in_s, in_n, in_y, in_x       floats from one set, image, row, element of the input to the next; any alignment
// out, out_s, out_n, out_y, out_x   the output, which may be the input's memory; in_x and out_x are 1 where there is a list
// images, rows, width        images of a set, rows of an image, floats of a row
// piece, row_pieces    floats of a piece, pieces of a row
// pieces, ticket_pieces   pieces in all, of a ticket
#include "post_tile.clh"

static void copy_rows(__global const copy_rows_desc* d, __global char** banks, __global char* scratch, const int ticket,
                      __global const post_step* post, const int posts) {
  const int last = min((ticket + 1) * d->ticket_pieces, d->pieces);
  for (int p = ticket * d->ticket_pieces; p < last; p++) {
    const int row = p / d->row_pieces, image = row / d->rows, y = row - image * d->rows;
    const int set = image / d->images, n = image - set * d->images, x = (p - row * d->row_pieces) * d->piece;
    const int count = min(d->piece, d->width - x), whole = count / 16, rest = count % 16;
    const long in_x = d->in_x, out_x = d->out_x;
    __global const float* from = AT(const float, banks, d->inp) + set * d->in_s + n * d->in_n + (long)y * d->in_y + x * in_x;
    __global float* to = AT(float, banks, d->out) + set * d->out_s + n * d->out_n + (long)y * d->out_y + x * out_x;
    if (in_x != 1 || out_x != 1) {
      for (int i = 0; i < count; i++) to[i * out_x] = from[i * in_x];
    } else if (posts) {
      if (whole) post_row_from(post, posts, banks, from, to, n, 0, y, x / 16, whole, 16, 0);
      if (rest) post_row_from(post, posts, banks, from + whole * 16, to + whole * 16, n, 0, y, x / 16 + whole, 1, rest, 0);
    } else if (from != to) {
      for (int i = 0; i < whole; i++) STORE_LOOSE(to + i * 16, LOAD_LOOSE(from + i * 16));
      for (int i = whole * 16; i < count; i++) to[i] = from[i];
    }
  }
}
