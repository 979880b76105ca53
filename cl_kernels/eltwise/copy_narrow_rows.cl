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
#include "post_tile.clh"

#define STEP_BYTES 64

// What the operand has for `count` rows from row `line` on, side by side; at is the operand of image 0, row 0.
static void spread_operand(__global const post_step* s, __global const float* at, __global float* to, const int line,
                           const int count, const int rows, const int width) {
  const int lanes = min(width, 16), more = min(width - lanes, 16), pitch = s->pitch_l;
  __global const float* before = 0;
  float16 low = 0.0f, high = 0.0f;
  int n = line / rows, y = line - n * rows;
  for (int i = 0; i < count; i++, to += width) {
    __global const float* from = at + (long)n * s->pitch_n + (long)y * s->pitch_y;
    if (from != before) {
      low = pitch ? load_lanes(from, pitch, lanes) : (float16)(*from);
      if (more) high = pitch ? load_lanes(from + s->pitch_x, pitch, more) : low;
      before = from;
    }
    STORE_LOOSE(to, low);
    if (more) STORE_LOOSE(to + 16, high);
    for (int j = 32; j < width; j += 16)
      STORE_LOOSE(to + j, pitch ? load_lanes(from + j / 16 * s->pitch_x, pitch, min(16, width - j)) : low);
    if (++y == rows) {
      y = 0;
      n++;
    }
  }
}

static void copy_narrow_rows(__global const copy_narrow_rows_desc* d, __global char** banks, __global char* scratch,
                             const int ticket, __global const post_step* post, const int posts) {
  const int last = min((ticket + 1) * d->ticket_pieces, d->pieces), width = d->width, rows = d->rows;
  __global post_step* step = (__global post_step*)scratch;
  __global float* room = (__global float*)(scratch + STEP_BYTES);
  __global char* own[1] = {scratch};
  for (int p = ticket * d->ticket_pieces; p < last; p++) {
    const int line = p * d->each, lines = min(d->each, d->lines - line), count = lines * width;
    const int whole = count / 16, rest = count % 16;
    __global const float* from = AT(const float, banks, d->inp) + (long)line * width;
    __global float* to = AT(float, banks, d->out) + (long)line * width;
    for (int k = 0; k < posts; k++, from = to) {
      *step = post[k];
      if (step->operand != CLGRAPH_NULL) {
        spread_operand(step, AT(const float, banks, step->operand), room, line, lines, rows, width);
        step->operand = STEP_BYTES;
        step->pitch_n = step->pitch_c = step->pitch_y = 0;
        step->pitch_x = 16;
        step->pitch_l = 1;
      }
      if (whole) post_row_from(step, 1, own, from, to, 0, 0, 0, 0, whole, 16, 0);
      if (rest) post_row_from(step, 1, own, from + whole * 16, to + whole * 16, 0, 0, 0, whole, 1, rest, 0);
    }
  }
}
#undef STEP_BYTES
