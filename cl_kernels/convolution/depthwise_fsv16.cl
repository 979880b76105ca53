// Depthwise convolution of blocked tensors (b_fs_yx_fsv16): each channel with a kernel of its own.
//
// A ticket is a strip of rows of one channel block of one image, the blocks of a strip side by side. The input carries the
// zero halo that windows reach into.
//
// inp, in_n, in_c, in_y, in_x   the window of output pixel (0, 0); floats to the next image, block, window row and column
// step_y, step_x                floats from one output row's, pixel's window to the next
// weights                       [block][ky][kx][16];  bias: 16 floats a block, or CLGRAPH_NULL
// out, out_n, out_c, out_y, height, width, top, bottom, left, right   the output and its halo
// kernel_y, kernel_x, id        of the window; the instance
// blocks, lanes                 channel blocks of an image, channels of the last
// strips, strip_rows            tickets of a block, rows of a ticket
// low .. stepped   the end of the sums: float_end.clh
//
// Error as in micro_depthwise.cl. Post-operations follow on each row.
#include "float_end.clh"
#include "fsv16.clh"

static void depthwise_fsv16(__global const depthwise_fsv16_desc* d, __global char** banks, __global char* scratch,
                            const int ticket, __global const post_step* post, const int posts) {
  const int block = ticket % d->blocks, strip = ticket / d->blocks % d->strips, n = ticket / d->blocks / d->strips;
  const int y1 = min((strip + 1) * d->strip_rows, d->height), width = d->width;
  __global const float* in = AT(const float, banks, d->inp) + (long)n * d->in_n + (long)block * d->in_c;
  __global const float* weights = AT(const float, banks, d->weights) + (long)block * d->kernel_y * d->kernel_x * 16;
  __global const float* bias = 0;
  if (d->bias != CLGRAPH_NULL) bias = AT(const float, banks, d->bias) + block * 16;
  __global float* out = AT(float, banks, d->out) + (long)n * d->out_n + (long)block * d->out_c;
  const float_end end = FLOAT_END_OF(d);
  // What operations behind read is still in the first-level cache.
  const int rows = posts ? 1 : y1 - strip * d->strip_rows;
  for (int y0 = strip * d->strip_rows; y0 < y1; y0 += rows) {
    __global float* to = out + (long)y0 * d->out_y;
    micro_depthwise(d->id, in + (long)y0 * d->step_y, weights, bias, to, d->kernel_y, d->kernel_x, d->in_y, d->kernel_y, 0,
                    d->in_x, d->step_x, width, rows, d->step_y, d->out_y, &end);
    if (posts)
      post_row(post, posts, banks, to, n, block, y0, 0, width, block == d->blocks - 1 ? d->lanes : 16, 1);
    zero_halo_rows(out, d->out_y, y0, rows, d->height, width, d->top, d->bottom, d->left, d->right);
  }
}
