import gradio as gr


def greet(name, request: gr.Request):
    yield 'Working'
    yield f'Hello {name}, user {request.headers.get("x-user-username", "none")}'


with gr.Blocks() as demo:
    name = gr.Textbox(label='Name')
    said = gr.Markdown()
    gr.Button('Greet').click(greet, name, said)
    file = gr.File(label='File')
    size = gr.Markdown()
    file.upload(lambda path: f'{len(open(path, "rb").read())} bytes', file, size)
