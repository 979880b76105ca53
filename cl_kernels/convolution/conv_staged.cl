// Convolution of a blocked tensor (b_fs_yx_fsv16) with operations in front of it: scale, shift and activation, gates.
//
// A ticket is a strip of output rows, or a part of one row, of one image, by a range of output groups. It first applies the
// operations to the input pixels under its windows, all channels, into the worker's scratch, zeros where windows reach
// beyond the input; then as conv_fsv16.cl. The input needs no halo.
//
// inp, in_n, in_c, in_y      pixel (0, 0) of channel block 0; pitches in floats;  in_height, in_width, in_blocks,
//                            in_lanes
// take_y, take_x             input rows and pixels from one staged one to the next: the strides of a 1x1 kernel without
//                            padding, else 1; operands of the list are addressed by staged pixels
// step_y, step_x             staged rows and pixels from one window to the next
// pad_top, pad_left          staged zeros before the first row and pixel
// dilation_y, dilation_x, kernel_y, kernel_x, channels   of the window; input channels
// scale, shift, scale_n, scale_c, scale_l, shift_n, shift_c, shift_l, below, above, pres   as in staging.clh
// strip_rows, strip_chunks   rows of a ticket, chunks of a row of a ticket
// strips, row_strips         tickets of one image, of one row of tickets
// ticket_groups, tiers       groups of a ticket, tickets with the same pixels
// out_blocks                 output blocks in all: the last group may have fewer than nb
// lines, distance, weight_ahead   cache lines a (block, ky, kx) prefetched, so many floats behind a group's weights; 0:
//                            none; floats of them that one chunk prefetches
// weights, bias, res, out, res_n, res_c, res_y, out_n, out_c, out_y, height, width, top, bottom, left, right, nb, groups,
// lanes, widths, ids_0, ids_1, last_widths, last_ids_0, last_ids_1, weight_group, row_chunks, chunk_width, low, high, gate,
// gate_from .. stepped: as in conv_fsv16.cl
//
// Error as in micro_conv.cl, in of it being the staged value, which has one rounding an operation.
#include "conv_chunks.clh"
#include "float_end.clh"
#include "fsv16.clh"
#include "staging.clh"

NOINLINE static void clear_pixels(__global float* to, const int count) {
  for (int i = 0; i < count; i++) STORE16(to + i * 16, (float16)(0.0f));
}

static void conv_staged(__global const conv_staged_desc* d, __global char** banks, __global char* scratch,
                        const int ticket, __global const post_step* post, const int posts) {
  const int tier = ticket % d->tiers, strip = ticket / d->tiers, n = strip / d->strips, within = strip - n * d->strips;
  const int y0 = within / d->row_strips * d->strip_rows, y1 = min(y0 + d->strip_rows, d->height), width = d->width;
  const int c0 = within % d->row_strips * d->strip_chunks, c1 = min(c0 + d->strip_chunks, d->row_chunks);
  const int left = chunk_start(c0, d->row_chunks, d->chunk_width, width);
  const int right = chunk_start(c1, d->row_chunks, d->chunk_width, width);
  const int rows = (y1 - y0 - 1) * d->step_y + (d->kernel_y - 1) * d->dilation_y + 1;
  const int pitch = (right - left - 1) * d->step_x + (d->kernel_x - 1) * d->dilation_x + 1;
  const int first_y = y0 * d->step_y * d->take_y - d->pad_top, first_x = left * d->step_x * d->take_x - d->pad_left;
  const int before = clamp(-first_x, 0, pitch);
  const int inside = max(0, min(pitch, (d->in_width - 1 - first_x) / d->take_x + 1) - before);
  const staging_heads heads = STAGING_OF(d);
  const float_end end = FLOAT_END_OF(d);
  __global float* stage = (__global float*)scratch;
  __global const float* in = AT(const float, banks, d->inp) + (long)n * d->in_n;

  for (int b = 0; b < d->in_blocks; b++)
    for (int r = 0; r < rows; r++) {
      __global float* to = stage + ((long)b * rows + r) * pitch * 16;
      const int y = first_y + r * d->take_y;
      if (y < 0 || y >= d->in_height || inside == 0) {
        clear_pixels(to, pitch);
        continue;
      }
      const int x = first_x + before * d->take_x;
      stage_row(heads, banks, post, in + (long)b * d->in_c + (long)y * d->in_y + x * 16, to + before * 16, n, b, y,
                x / d->take_x, inside, d->take_x, b == d->in_blocks - 1 ? d->in_lanes : 16);
      clear_pixels(to, before);
      clear_pixels(to + (before + inside) * 16, pitch - before - inside);
    }

  const int last_group = min((tier + 1) * d->ticket_groups, d->groups);
  for (int g = tier * d->ticket_groups; g < last_group; g++) {
    const int block = g * d->nb, nb = min(d->nb, d->out_blocks - block);
    __global const float *bias = 0, *res = 0;
    if (d->bias != CLGRAPH_NULL) bias = AT(const float, banks, d->bias) + block * 16;
    if (d->res != CLGRAPH_NULL) res = AT(const float, banks, d->res) + (long)n * d->res_n + (long)block * d->res_c;
    __global const float* wp = AT(const float, banks, d->weights) + (long)g * d->weight_group;
    __global const float* ahead = g + 1 < d->groups ? wp + d->distance : wp;
    __global float* out = AT(float, banks, d->out) + (long)n * d->out_n + (long)block * d->out_c;
    const bool last = g == d->groups - 1;
    const long widths = last ? d->last_widths : d->widths;
    const long ids_0 = last ? d->last_ids_0 : d->ids_0, ids_1 = last ? d->last_ids_1 : d->ids_1;
    for (int y = y0; y < y1; y++) {
      __global const float* row = stage + (long)(y - y0) * d->step_y * pitch * 16;
      for (int x0 = left; x0 < right;) {
        const chunk_run run = chunks_alike(x0, right, d->row_chunks, d->chunk_width, width);
        for (int at = 0; at < run.width;) {
          const int most = min(run.width - at, 15), wide = (int)(widths >> (4 * most)) & 15, x = x0 + at;
          const int id = (int)((wide < 8 ? ids_0 : ids_1) >> (8 * (wide & 7))) & 255;
          micro_conv(id, row + (x - left) * d->step_x * 16, wp, bias, res ? res + (long)y * d->res_y + x * 16 : 0,
                     out + (long)y * d->out_y + x * 16, nb, d->channels, 0, d->kernel_y, d->kernel_x, rows * pitch * 16,
                     d->dilation_y * pitch * 16, d->dilation_x * 16, d->step_x * 16, d->out_c, d->res_c, run.count,
                     run.width * d->step_x * 16, run.width * 16, run.width * 16, &end, 0, ahead, d->lines);
          at += wide;
        }
        x0 += run.width * run.count;
        ahead += (long)run.count * d->weight_ahead;
      }
      for (int b = 0; b < nb; b++) {
        __global float* plane = out + (long)b * d->out_c;
        if (posts > d->pres)
          post_row(post + d->pres, posts - d->pres, banks, plane + (long)y * d->out_y + left * 16, n, block + b, y, left,
                   right - left, block + b == d->out_blocks - 1 ? d->lanes : 16, 1);
        zero_halo(plane, d->out_y, y, left, right - left, d->height, width, d->top, d->bottom, d->left, d->right);
      }
    }
  }
}
