// Convolution of a plain tensor into blocks of 16: the first layer of a network, of few channels, and windows without pads.
//
// A ticket is a strip of output rows of one image, all channels. Where there are pads, it first copies the input rows that
// its windows reach, zeros around them, into the worker's scratch; the input may lie at any alignment. Then as
// conv_fsv16.cl, with input pixels of one float. What the next strip copies comes from memory: each output row fetches as
// much of it as it takes.
//
// inp, weights, bias, out     bias (16 floats a block) may be CLGRAPH_NULL
// in_n, in_c, in_y            pitches of the input, whose pixels are neighbours;  in_height, in_width: its size
// pad_top, pad_left           zeros before the first row and pixel
// strip_rows                  output rows of a ticket;  strips: tickets of one image
// staged                      1: there are pads; 0: windows read the input where it lies
// stage_pitch                 floats of a row in scratch: all windows of a row;  dilation_y, dilation_x: of the window
// stride_y, stride_x          rows and pixels from one window to the next
// channels, kernel_y, kernel_x, out_n, out_c, out_y, height, width, top, bottom, left, right, nb, groups, lanes, widths,
// ids_0, ids_1, weight_group, row_chunks, chunk_width, low .. stepped:
// as in conv_fsv16.cl
//
// Error as in micro_conv.cl.
#include "conv_chunks.clh"
#include "float_end.clh"
#include "fsv16.clh"
#include "staged_floats.clh"

static void conv_planar(__global const conv_planar_desc* d, __global char** banks, __global char* scratch,
                        const int ticket, __global const post_step* post, const int posts) {
  const int n = ticket / d->strips, y0 = (ticket - n * d->strips) * d->strip_rows;
  const int y1 = min(y0 + d->strip_rows, d->height), width = d->width, pitch = d->stage_pitch;
  const int rows = (y1 - y0 - 1) * d->stride_y + (d->kernel_y - 1) * d->dilation_y + 1;
  const int first = y0 * d->stride_y - d->pad_top;
  const float_end end = FLOAT_END_OF(d);
  __global float* stage = (__global float*)scratch;
  __global const float* in = AT(const float, banks, d->inp) + (long)n * d->in_n;
  const int staged = d->staged, in_y = staged ? pitch : d->in_y, in_c = staged ? rows * pitch : d->in_c;
  __global const float* top = staged ? stage : in + (long)first * in_y;

  for (int c = 0; c < d->channels && staged; c++)
    for (int r = 0; r < rows; r++) {
      __global float* to = stage + ((long)c * rows + r) * pitch;
      const int y = first + r;
      if (y < 0 || y >= d->in_height) {
        clear_floats(to, pitch);
        continue;
      }
      stage_floats(in + (long)c * d->in_c + (long)y * d->in_y, d->in_width, -d->pad_left, to, pitch);
    }

  for (int g = 0; g < d->groups; g++) {
    const int block = g * d->nb;
    __global const float* bias = 0;
    if (d->bias != CLGRAPH_NULL) bias = AT(const float, banks, d->bias) + block * 16;
    __global const float* wp = AT(const float, banks, d->weights) + (long)g * d->weight_group;
    __global float* out = AT(float, banks, d->out) + (long)n * d->out_n + (long)block * d->out_c;
    for (int y = y0; y < y1; y++) {
      const int next = max(first + rows + (y - y0) * d->stride_y, 0);
      for (int c = 0; c < d->channels && staged && g == 0; c++)
        for (int r = next; r < min(next + d->stride_y, d->in_height); r++)
          for (int i = 0; i < d->in_width; i += 16) FETCH_NEXT(in + (long)c * d->in_c + (long)r * d->in_y + i);
      for (int x0 = 0; x0 < width;) {
        const chunk_run run = chunks_alike(x0, width, d->row_chunks, d->chunk_width, width);
        for (int at = 0; at < run.width;) {
          const int most = min(run.width - at, 15), wide = (int)(d->widths >> (4 * most)) & 15, x = x0 + at;
          const int id = (int)((wide < 8 ? d->ids_0 : d->ids_1) >> (8 * (wide & 7))) & 255;
          micro_conv(id, top + (long)(y - y0) * d->stride_y * in_y + x * d->stride_x, wp, bias, 0,
                     out + (long)y * d->out_y + x * 16, d->nb, d->channels, 0, d->kernel_y, d->kernel_x, in_c,
                     d->dilation_y * in_y, d->dilation_x, d->stride_x, d->out_c, 0, run.count, run.width * d->stride_x,
                     run.width * 16, 0, &end, 0, wp, 0);
          at += wide;
        }
        x0 += run.width * run.count;
      }
      for (int b = 0; b < d->nb; b++) {
        __global float* plane = out + (long)b * d->out_c;
        if (posts)
          post_row(post, posts, banks, plane + (long)y * d->out_y, n, block + b, y, 0, width,
                   block + b == d->groups * d->nb - 1 ? d->lanes : 16, 1);
        zero_halo(plane, d->out_y, y, 0, width, d->height, width, d->top, d->bottom, d->left, d->right);
      }
    }
  }
}
